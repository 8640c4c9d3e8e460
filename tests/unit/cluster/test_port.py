"""A snapshot has everything up to the number that the lease has in it."""

from forewarn.cluster.port import FeedRow, LeaseRow, Moment


def test_number_of_a_snapshot_is_that_of_the_lease_and_not_of_the_last_feed_row() -> (
    None
):
    lease = LeaseRow(term=2, holder="a", url="", beat=9, number=41)
    row = FeedRow(number=39, term=2, changes=(("View", "west"),))
    assert Moment(lease=lease, rows=(row,)).number == 41
    assert Moment(lease=lease, rows=None).number == 41
