"""How good the rankings are: judged sets, named configurations, paired comparisons."""
