"""The one gate every effect passes."""
