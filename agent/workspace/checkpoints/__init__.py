"""What every step did to the files of a workspace, kept so that it can be looked at and taken back."""
