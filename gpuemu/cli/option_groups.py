"""Options in groups, for the help of commands that have many."""

from __future__ import annotations

import click

_GROUPS = {
    "Hardware": "arch_name archs arch_names caches chip chips settings settings_b",
    "Output": "page by hottest warps start cycles everything form output also sources ranked asked_sure against rows",
    "In a test, or in CI": "conditions baseline renew allowed tolerances expected",
    "The launch of a .cu or .cubin": "kernel grid block cluster_size dynamic_shared args cta execute budget stack"
    " zero_shared",
    "The compiler of a .cu": "define include compiler_flags",
    "Values that the kernel computes": "save expect tolerance",
}
"""Each group with its parameters; the others come first, without a group."""


class Grouped(click.Command):
    """A command whose help has its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them, the groups in their order."""
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        records = {p.name: found for p in options if (found := p.get_help_record(ctx)) is not None}
        groups = {title: [records.pop(n) for n in names.split() if n in records] for title, names in _GROUPS.items()}
        for title, rows in {"Options": list(records.values()), **groups}.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
