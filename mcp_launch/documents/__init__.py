"""Texts with positions: TOML, JSON with comments and YAML, of which single spans are changed."""
