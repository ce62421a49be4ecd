"""`python -m tilesched`: the command, where the script is not on the path."""

from tilesched.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
