"""The commands of the gateway; `toolkit.cli` lists them."""
