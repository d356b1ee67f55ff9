"""Mobile rewards: sessions, moments, an engine that explains each decision, and the analysis of decisions.

The analysis needs no connection: ``toolkit.rewards.funnel(decisions)``.
"""

from typing import TYPE_CHECKING

from toolkit.public_api import lazy_names

if TYPE_CHECKING:
    from toolkit.rewards.analysis.charts import plot
    from toolkit.rewards.analysis.experiments import ab
    from toolkit.rewards.analysis.explanation import explain, sentence
    from toolkit.rewards.analysis.funnels import funnel
    from toolkit.rewards.analysis.rates import cap_report, rate_by_moment, rule_report
    from toolkit.rewards.analysis.simulation import made_up_moments, simulate

__all__ = [
    "ab", "cap_report", "explain", "funnel", "made_up_moments", "plot", "rate_by_moment", "rule_report", "sentence",
    "simulate",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("explain", "sentence"), "toolkit.rewards.analysis.explanation"),
        **dict.fromkeys(("cap_report", "rate_by_moment", "rule_report"), "toolkit.rewards.analysis.rates"),
        **dict.fromkeys(("made_up_moments", "simulate"), "toolkit.rewards.analysis.simulation"),
        "ab": "toolkit.rewards.analysis.experiments",
        "funnel": "toolkit.rewards.analysis.funnels",
        "plot": "toolkit.rewards.analysis.charts",
    },
)
