# The frozen roles of revision 1.1.0, written by nexus-router role export.
# role table sha256 716d0873f8b85b3441eec9206539560bb1b06a3c5e344a64ec1afa8dfd8a17f9
# contract   sha256 d7a9d0f56743ff09acdef534f3f7948c4632f46902e005cd3df667f843473a3b
package nexus_router.role

import rego.v1

default allow := false

# What is neither true nor false authorizes nothing.
well_formed if {
	is_boolean(input.network_requested)
	is_boolean(input.plan_authorized)
	is_boolean(input.policy_gate)
}

allow if {
	well_formed
	input.role == "scout"
	input.action in {
		"data_lookup",
		"doc_retrieval",
		"extract_entities",
		"summarize_sources",
		"transform_text",
		"web_search",
	}
	input.network_requested == false
}

allow if {
	well_formed
	input.role == "envoy"
	input.action in {
		"artifact_pack",
		"build_exec",
		"file_write",
		"repo_ops",
		"test_exec",
	}
	input.network_requested == false
}

allow if {
	well_formed
	input.role == "envoy"
	input.action in {
		"artifact_pack",
		"build_exec",
		"file_write",
		"repo_ops",
		"test_exec",
	}
	input.network_requested == true
	input.plan_authorized == true
	input.policy_gate == true
}

allow if {
	well_formed
	input.role == "envoy"
	input.action in {
		"shell_exec",
	}
	input.network_requested == false
	input.plan_authorized == true
	input.policy_gate == true
}

allow if {
	well_formed
	input.role == "envoy"
	input.action in {
		"shell_exec",
	}
	input.network_requested == true
	input.plan_authorized == true
	input.policy_gate == true
}
