"""The timeline: the tree of a session as rows, and the widget that shows them."""
