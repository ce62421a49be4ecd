"""The device table."""

import pytest

from tilesched.simulator.devices import DEVICES, device
from tilesched.simulator.errors import InputError

KNOWN = {"b200": 148, "gb200": 152, "GB300": 152, "h200": 132, "H100": 132, "RTX PRO 6000": 188, "h100_pcie": 114}


@pytest.mark.parametrize(("name", "sms"), KNOWN.items())
def test_names_are_forgiving(name: str, sms: int) -> None:
    assert device(name).sm_count == sms


def test_every_device_states_its_source() -> None:
    assert all(item.source and item.sm_count > 0 and name == item.name for name, item in DEVICES.items())


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'rtx-pro-6000'"):
        device("rtx-pro-600")
    with pytest.raises(InputError, match="known: b200, "):
        device("zzzzzz")
