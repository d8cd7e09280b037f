from teamwright.journal.run_filter import RunFilter


def test_a_page_begins_after_a_run_and_not_at_a_number() -> None:
    clauses, parameters = RunFilter(team="t", status="failed", after="run", order="usd").clauses(10)
    assert clauses == (
        "WHERE parent = '' AND team = ? AND status = ?"
        " AND (coalesce(usd, -1), place) > (SELECT coalesce(usd, -1), place FROM runs WHERE id = ?)"
        " ORDER BY coalesce(usd, -1) ASC, place ASC LIMIT ?"
    )
    assert parameters == ["t", "failed", "run", 10]


def test_a_status_that_drivers_tell_is_picked_from_all_open_runs() -> None:
    clauses, parameters = RunFilter(status="running").clauses(10)
    assert clauses == "WHERE parent = '' AND (status IS NULL OR status = 'interrupted') ORDER BY place DESC"
    assert parameters == []
