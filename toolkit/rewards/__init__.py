"""Mobile rewards: sessions, moments, an engine that explains its decisions, and their analysis."""
