"""What commands do is tested in the test's own process, as units are."""

from __future__ import annotations

from unit.conftest import no_process, own_path  # noqa: F401  # fixtures
