"""The screens, one per module, with its stylesheet in the same folder."""
