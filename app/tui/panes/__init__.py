"""The side panes of a session. Each file `*_pane.py` is one and declares itself as `PANE`."""
