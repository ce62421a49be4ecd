"""The mbarrier protocol: operations, the fast checker, and the exhaustive explorer that keeps it honest."""
