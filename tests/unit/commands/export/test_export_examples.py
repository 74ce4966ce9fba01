"""The examples for `export` in configs/: a service, and the collector that it sends to."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import yaml
from documented_commands import list_faults

CONFIGS = Path(__file__).parents[4] / "configs"
URL = "http://127.0.0.1:4318"


def test_the_service_runs_a_command_that_exists() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(CONFIGS / "mcp-launch-export.service", encoding="utf-8")

    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program == "%h/.local/bin/mcp-launch"
    assert words == ["export", "--otlp", URL, "--follow"]
    assert list_faults(f"`mcp-launch {' '.join(words)}`") == []
    assert unit["Install"]["WantedBy"] == "default.target"


def test_the_collector_receives_where_the_service_sends() -> None:
    config = yaml.safe_load((CONFIGS / "otel-collector.yaml").read_text(encoding="utf-8"))

    [receiver] = config["receivers"].items()
    name, settings = receiver
    assert f"http://{settings['protocols']['http']['endpoint']}" == URL
    assert set(config["service"]["pipelines"]) == {"traces", "metrics"}
    for pipeline in config["service"]["pipelines"].values():
        assert pipeline["receivers"] == [name]
        assert set(pipeline["exporters"]) <= set(config["exporters"])
        assert set(pipeline["processors"]) <= set(config["processors"])
