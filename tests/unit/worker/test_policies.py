"""Policies as people give them."""

from typing import Any

import pytest

from phalanx.channels import LastValue
from phalanx.pregel import NodeBuilder, Pregel
from phalanx.types import CachePolicy, RetryPolicy, TimeoutPolicy
from phalanx.worker.policies import cache_policy_of, retry_policies_of, timeout_policy_of

ONE = RetryPolicy(max_attempts=2)
OTHER = RetryPolicy(max_attempts=5)


@pytest.mark.parametrize(
    ("given", "policies"), [(None, ()), (ONE, (ONE,)), ([ONE, OTHER], (ONE, OTHER)), ((OTHER,), (OTHER,)), ((), ())]
)
def test_one_retry_policy_several_or_none_come_as_a_tuple(given: object, policies: tuple[RetryPolicy, ...]) -> None:
    assert retry_policies_of(given, "node 'a'") == policies


@pytest.mark.parametrize("given", [3, "often", [ONE, 3], (0.5, 2.0)])
def test_what_is_no_retry_policy_is_refused_naming_whose_it_is(given: object) -> None:
    with pytest.raises(TypeError, match=r"^retry_policy of node 'a' must be a RetryPolicy or a sequence of them; got"):
        retry_policies_of(given, "node 'a'")


def test_a_retry_policy_whose_numbers_mean_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="max_attempts in the retry_policy of node 'a' must be at least 1; got 0"):
        retry_policies_of(RetryPolicy(max_attempts=0), "node 'a'")


def test_what_is_no_cache_policy_is_refused_naming_whose_it_is() -> None:
    policy = CachePolicy(ttl=1)
    assert cache_policy_of(policy, "node 'a'") is policy
    assert cache_policy_of(None, "node 'a'") is None
    with pytest.raises(TypeError, match="cache_policy of node 'a' must be a CachePolicy; got 5"):
        cache_policy_of(5, "node 'a'")


def test_an_error_about_a_timeout_says_whose_it_is() -> None:
    assert timeout_policy_of(2, "node 'a'") == TimeoutPolicy(2.0)
    with pytest.raises(ValueError, match="greater than 0") as caught:
        timeout_policy_of(0, "node 'a'")
    assert caught.value.__notes__ == ["this is the timeout of node 'a'"]


@pytest.mark.parametrize("policies", [{"retry_policy": 3}, {"cache_policy": 3}], ids=str)
def test_nodes_and_graphs_over_bare_channels_take_nothing_else_either(policies: dict[str, Any]) -> None:
    node = NodeBuilder().subscribe_only("a").write_to("b")
    channels: dict[str, object] = {"a": LastValue(int), "b": LastValue(int)}

    with pytest.raises(TypeError, match="of the graph must be"):
        Pregel(nodes={"n": node}, channels=channels, input_channels="a", output_channels="b", **policies)
    with pytest.raises(TypeError, match="of a NodeBuilder must be"):
        node.add_retry_policies(3) if "retry_policy" in policies else node.add_cache_policy(3)  # type: ignore[arg-type]
