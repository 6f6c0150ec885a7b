"""The settings: one dict, and an error that names what is wrong before anything works with it."""

import math

import pytest
from django.core.exceptions import ImproperlyConfigured

from ledgence.conf import LedgenceSettings, get_settings


def test_without_a_dict_the_defaults_hold(settings):
    del settings.LEDGENCE
    get_settings.cache_clear()
    assert get_settings() == LedgenceSettings()


def test_what_is_set_is_read_and_the_rest_stays(settings):
    settings.LEDGENCE = {
        "LEASE_SECONDS": 10,
        "QUEUE": "work",
        "RETRY_ON": ["failed", "my.Error"],
        "TIMEOUT_SECONDS": None,
    }
    read = get_settings()
    assert (read.lease_seconds, read.queue, read.timeout_seconds) == (10, "work", None)
    assert (read.cleanup_seconds, read.max_attempts) == (5, 3)


@pytest.mark.parametrize(("lease", "cleanup"), [(2, 1), (59, 29.5), (60, 30), (3600, 30)])
def test_the_clean_up_allowance_follows_from_the_lease(settings, lease, cleanup):
    settings.LEDGENCE = {"LEASE_SECONDS": lease}
    assert get_settings().cleanup_seconds == cleanup


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("text", "must be a dict, not str"),
        ({"LEASE": 1, "lease_seconds": 60}, "unknown settings: LEASE, lease_seconds"),
        ({"LEASE_SECONDS": 1.9}, "LEASE_SECONDS'] is 1.9"),
        ({"LEASE_SECONDS": math.nan}, "LEASE_SECONDS'] is nan"),
        ({"LEASE_SECONDS": math.inf}, "LEASE_SECONDS'] is inf"),
        ({"LEASE_SECONDS": "60"}, "LEASE_SECONDS"),
        ({"SESSION_SECONDS": 1}, "SESSION_SECONDS"),
        ({"LOCK_TIMEOUT_SECONDS": 0}, "LOCK_TIMEOUT_SECONDS"),
        ({"LOCK_TIMEOUT_SECONDS": -1}, "LOCK_TIMEOUT_SECONDS"),
        ({"MAX_ATTEMPTS": 0}, "max_attempts"),
        ({"MAX_ATTEMPTS": 32_768}, "max_attempts"),
        ({"MAX_ATTEMPTS": 2.5}, "MAX_ATTEMPTS"),
        ({"MAX_ATTEMPTS": True}, "MAX_ATTEMPTS"),
        ({"TIMEOUT_SECONDS": 0}, "timeout"),
        ({"TIMEOUT_SECONDS": math.nan}, "timeout"),
        ({"BACKOFF_INITIAL_SECONDS": -1}, "backoff initial_seconds"),
        ({"BACKOFF_FACTOR": 11}, "backoff factor"),
        ({"BACKOFF_MAXIMUM_SECONDS": 1}, "backoff maximum_seconds"),
        ({"BACKOFF_JITTER": 1.5}, "backoff jitter"),
        ({"RETRY_ON": ("succeeded",)}, "retry_on"),
        ({"RETRY_ON": "lost"}, "RETRY_ON"),
        ({"TENANT": ""}, "tenant"),
        ({"NAMESPACE": " a"}, "namespace"),
        ({"QUEUE": "a" * 129}, "queue"),
        ({"HINTS": 1}, "HINTS"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(settings, given, words):
    settings.LEDGENCE = given
    with pytest.raises(ImproperlyConfigured) as error:
        get_settings()
    assert words in str(error.value)


@pytest.mark.parametrize("given", [{"LEASE_SECONDS": 2}, {"LOCK_TIMEOUT_SECONDS": 0.001}, {"MAX_ATTEMPTS": 32_767}])
def test_settings_at_their_ends_are_accepted(settings, given):
    settings.LEDGENCE = given
    [(name, value)] = given.items()
    assert getattr(get_settings(), name.lower()) == value
