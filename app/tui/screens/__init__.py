"""The screens, one per module, with their stylesheets in the same folder."""
