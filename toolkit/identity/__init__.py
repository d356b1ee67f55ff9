"""Mobile identity and checkout data. Read `wire` (endpoints, fields) and `flow` (the state table) first."""
