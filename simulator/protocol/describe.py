"""What an operation does, in a few words."""

from __future__ import annotations

from .ops import (
    Agent,
    Arrive,
    AwaitOwn,
    Complete,
    Expect,
    Fence,
    Init,
    Inval,
    Join,
    Launch,
    Operation,
    Signal,
    Touch,
    Wait,
)

__all__ = ["describe"]


def describe(operation: Operation | Signal | Agent) -> str:
    """What it does, in the third person; of an agent, its end."""
    match operation:
        case Wait(barrier, phase):
            return f"passes the wait for phase {phase} of {barrier.name}"
        case Arrive(barrier, _, tx):
            return f"arrives on {barrier.name}" + (f", expecting {tx} bytes" if tx else "")
        case Expect(barrier, tx):
            return f"expects {tx} bytes on {barrier.name}"
        case Complete(barrier, tx):
            return f"delivers {tx} bytes to {barrier.name}"
        case AwaitOwn(barrier):
            return f"passes {barrier.name}"
        case Init(barrier):
            return f"initialises {barrier.name}"
        case Inval(barrier):
            return f"invalidates {barrier.name}"
        case Touch(access):
            return f"{access.mode.value} {access.slot.name}"
        case Launch(agent):
            return f"launches {agent.name}"
        case Join(groups):
            return f"has waited for {', '.join(groups)}"
        case Fence(kind):
            return kind.value
        case Agent(name):
            return f"ends {name}"
