"""Export what is new: read, send, and only then remember."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.commands.export import call_facts, metrics, progress
from mcp_launch.commands.export.attributes import make_resource
from mcp_launch.commands.export.call_parts import BATCH, read_batch
from mcp_launch.commands.export.sending import Collector, CollectorFailed
from mcp_launch.commands.export.spans import make_span
from mcp_launch.state.calls import name_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.commands.export.call_parts import RecordBatch
    from mcp_launch.commands.export.destination import Destination
    from mcp_launch.machine.survey import Survey
    from mcp_launch.protocol.json_text import Json


class Exported(NamedTuple):
    """What an export did."""

    calls: int = 0
    failures: int = 0
    rejected: int = 0  # spans that the collector did not take
    torn: int = 0
    missed: int = 0
    message: str = ""  # why the collector did not take some

    def add(self, other: Exported) -> Exported:
        """Return both together."""
        return Exported(
            self.calls + other.calls,
            self.failures + other.failures,
            self.rejected + other.rejected,
            self.torn + other.torn,
            self.missed + other.missed,
            other.message or self.message,
        )


class Exporter:
    """Exports to one destination, from where it last got to."""

    def __init__(
        self,
        file: progress.ProgressFile,
        destination: Destination,
        survey: Survey,
        environ: Mapping[str, str],
        since: float,
    ) -> None:
        self._file = file
        self._survey = survey
        self._calls = name_directory(survey.state)
        known = file.read()
        self._progress = known or progress.begin(since)
        if not known:
            file.write(self._progress)  # the same instance and time after any crash
        resource = make_resource(self._progress.instance, environ)
        self._collector = Collector(destination, resource)
        self._limit = BATCH
        self.done = Exported()  # since the last `take`

    def take(self) -> Exported:
        """Return what was exported since this was last called."""
        done, self.done = self.done, Exported()
        return done

    def export_all(self) -> None:
        """Export all calls that are new, and the metrics.

        Raises:
            CollectorFailed: The collector has not accepted something. What it has accepted
                before that is in `done`, and remembered.
            LaunchError: What was exported cannot be remembered.

        """
        while not self._export_batch():
            pass
        self._export_metrics()

    def _export_batch(self) -> bool:
        """Export a batch of calls; return whether it was the last one for now."""
        batch = read_batch(self._calls, self._progress.parts, self._limit)
        wanted = [one for one in batch.records if self._is_wanted(one)]
        spans = [span for span in map(make_span, wanted) if span]
        try:
            answer = self._collector.send_spans(spans) if spans else None
        except CollectorFailed as error:
            if error.is_too_large and self._limit > 1:
                self._limit = max(1, len(batch.records) // 2)
                return False
            self._remember_parts(batch)
            raise
        self._limit = BATCH
        self._remember(batch, wanted)
        failures = sum(bool(call_facts.find_error_type(one)) for one in wanted)
        self.done = self.done.add(
            Exported(
                len(wanted),
                failures,
                answer.rejected if answer else 0,
                batch.torn + len(batch.records) - self._count_timed(batch),
                batch.missed,
                answer.message if answer else "",
            )
        )
        return batch.is_last

    def _is_wanted(self, record: dict[str, Json]) -> bool:
        moment = call_facts.read_moment(record)
        return moment is not None and moment >= self._progress.since

    @staticmethod
    def _count_timed(batch: RecordBatch) -> int:
        return sum(call_facts.read_moment(one) is not None for one in batch.records)

    def _remember_parts(self, batch: RecordBatch) -> None:
        """Remember which parts there are, so that those that vanish unread can be counted."""
        before = self._progress.parts
        parts = {
            name: reach._replace(read=before[name].read if name in before else 0)
            for name, reach in batch.parts.items()
        }
        # Those that were full and are gone now are counted once, with the next batch that succeeds.
        parts |= {
            name: reach
            for name, reach in before.items()
            if name not in parts and reach.read < reach.seen
        }
        if parts != before:
            self._progress = self._progress._replace(parts=parts)
            self._file.write(self._progress)

    def _remember(self, batch: RecordBatch, wanted: list[dict[str, Json]]) -> None:
        now = self._progress
        if batch.parts == now.parts:
            return
        for record in wanted:
            now.totals.add_call(record)
        moments = [call_facts.read_moment(one) or now.begun for one in wanted]
        # The first calls may be older than their export, but a count begins before it counts.
        begun = min([now.begun, *moments])
        self._progress = now._replace(parts=batch.parts, begun=begun)
        self._file.write(self._progress)

    def _export_metrics(self) -> None:
        census = self._survey.take_census()
        now = self._progress
        if now.totals.see_restarts(metrics.list_restarts(census)):
            self._file.write(now)
        made = metrics.make_metrics(now.totals, census, now.begun, time.time())
        if made:
            self._collector.send_metrics(made)
