"""Records and results that are read together are the same as those read one by one."""

from dataclasses import replace

from forewarn.protocol.views import View
from forewarn.store import cache, kinds
from forewarn.store.port import Store, Transaction, fetch, fetch_answers

VIEWS = [
    View(view_id=f"{word}/vm_{number}", scope=word, enabling=word)
    for word in ("db", "web")
    for number in range(cache.ANSWER_KEYS_MAX - 1)
]
WORDS = ["db", "web", "new", "none"]
KEYS = [*(view.key for view in VIEWS), "new/vm_0", "none/vm_0"]


def test_fetched_views_are_those_of_single_questions(store: Store) -> None:
    """Stored before, changed and added in the transaction, and not there at all."""

    def add_all(tx: Transaction) -> None:
        for view in VIEWS:
            tx.add(view)

    store.transact(add_all)
    new = View(view_id="new/vm_0", scope="new", enabling="new")

    def look(tx: Transaction, *, together: bool) -> list[object]:
        tx.add(new)
        changed = tx.get(View, "db/vm_3")
        assert changed is not None
        tx.replace(changed, replace(changed, epoch=7, enabling="web"))
        if together:
            fetch(tx, View, KEYS)
            fetch_answers(tx, kinds.VIEWS_OF_ENABLING, WORDS)
        tx.add(View(view_id="web/later", scope="web", enabling="web"))
        records: list[object] = [tx.get(View, key) for key in KEYS]
        records += [tx.select(kinds.VIEWS_OF_ENABLING, word) for word in WORDS]
        return records

    class UndoError(Exception):
        """Roll back, to look again at the same store."""

    results: list[list[object]] = []
    for together in (False, True):

        def work(tx: Transaction, together: bool = together) -> None:
            results.append(look(tx, together=together))
            raise UndoError

        try:
            store.transact(work)
        except UndoError:
            continue
    assert results[0] == results[1]
    assert results[0][KEYS.index("none/vm_0")] is None
