"""TOML, JSON with comments and YAML, read with positions so that single spans can be changed."""
