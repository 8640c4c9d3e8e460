"""The settings of the profiles, and the effect of the speed."""

from forewarn.sim.profiles import Profile, settings_of


def test_real_profile_has_first_delays_and_a_rate_limit() -> None:
    assert settings_of(Profile.REAL, speed=1) == {
        "metadata.rate_limit": "5",
        "metadata.first_answer_delay": "1m",
        "metadata.first_events_delay": "5m",
    }


def test_speed_divides_platform_times_and_not_the_rate_limit() -> None:
    settings = settings_of(Profile.REAL, speed=60)
    assert settings["metadata.first_answer_delay"] == "1s"
    assert settings["metadata.first_events_delay"] == "5s"
    assert settings["metadata.rate_limit"] == "5"


def test_speed_below_1_does_not_lengthen_delays() -> None:
    slow = settings_of(Profile.REAL, speed=0.01)
    assert slow == settings_of(Profile.REAL, speed=1)


def test_other_profiles_answer_at_once_and_only_strict_reports() -> None:
    for profile in (Profile.STRICT, Profile.LENIENT):
        assert settings_of(profile, speed=60) == {"metadata.rate_limit": "0"}
    assert [profile for profile in Profile if profile.tells] == [Profile.STRICT]
