"""The side panes of a session. Each file `*_pane.py` holds one pane and declares it as `PANE`."""
