"""The status of a cluster that crm_mon prints, in the forms of several versions."""

import pytest

from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.integrations.pacemaker.client import cluster_of

OLD = """<pacemaker-result api-version="2.0" request="crm_mon --output-as=xml">
  <summary><current_dc present="true" with_quorum="true"/></summary>
  <nodes>
    <node name="n1" online="true" standby="false" type="member"/>
    <node name="n2" online="true" standby="false" health="red" type="member"/>
  </nodes>
  <resources>
    <clone id="c" multi_state="true"><resource id="db:0" role="Master" active="true"
      managed="true" blocked="false" failed="false" nodes_running_on="1">
      <node name="n1" id="1" cached="true"/></resource></clone>
    <bundle id="b"><replica id="0"><resource id="web" role="Started" active="true"
      managed="true" failed="true"><node name="n2"/></resource></replica></bundle>
  </resources>
  <node_history><node name="n1"><resource_history id="db"/></node></node_history>
</pacemaker-result>"""


def test_output_of_old_versions_is_parsed() -> None:
    cluster = cluster_of(OLD)
    assert cluster.has_quorum
    assert not cluster.is_maintained
    [database] = cluster.on("n1")
    assert database.need == ("db", True)
    assert cluster.others("n1") == ()
    assert cluster.others("n2") == ("n1",)
    # A failed resource does not run.
    assert cluster.lacks([("web", False)], "n1") == ("web",)
    assert cluster.lacks([("db", True)], "n2") == ()


@pytest.mark.parametrize("text", ["", "<pacemaker-result>", "<a/>", "Cluster Summary:"])
def test_malformed_output_is_reported(text: str) -> None:
    with pytest.raises(HandlerError, match="cannot parse crm_mon's output"):
        cluster_of(text)
