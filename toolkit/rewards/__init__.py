"""Mobile rewards: sessions, moments, an engine that explains each decision, and the analysis of decisions.

The analysis needs no connection: ``toolkit.rewards.funnel(decisions)``.
"""

from typing import TYPE_CHECKING

from toolkit.public_names import lazy_names

if TYPE_CHECKING:
    from toolkit.rewards.analysis.charts import plot
    from toolkit.rewards.analysis.experiments import ab
    from toolkit.rewards.analysis.explanation import explain, sentence
    from toolkit.rewards.analysis.funnels import funnel, moments_per_session
    from toolkit.rewards.analysis.rates import by_device, by_hour, cap_report, rate_by_moment
    from toolkit.rewards.analysis.simulation import made_up_moments, simulate
    from toolkit.rewards.forms import new_device_id

__all__ = [
    "ab", "by_device", "by_hour", "cap_report", "explain", "funnel", "made_up_moments", "moments_per_session",
    "new_device_id", "plot", "rate_by_moment", "sentence", "simulate",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("explain", "sentence"), "toolkit.rewards.analysis.explanation"),
        **dict.fromkeys(("funnel", "moments_per_session"), "toolkit.rewards.analysis.funnels"),
        **dict.fromkeys(("by_device", "by_hour", "cap_report", "rate_by_moment"), "toolkit.rewards.analysis.rates"),
        **dict.fromkeys(("made_up_moments", "simulate"), "toolkit.rewards.analysis.simulation"),
        "ab": "toolkit.rewards.analysis.experiments",
        "new_device_id": "toolkit.rewards.forms",
        "plot": "toolkit.rewards.analysis.charts",
    },
)
