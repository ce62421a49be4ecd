"""The command `tilesched-sim`: parse, call, print, exit code."""
