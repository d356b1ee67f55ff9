"""Tools of the maintainers, which make files of the package; the wheel does not have them."""
