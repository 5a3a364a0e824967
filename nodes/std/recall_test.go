package std_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// TestRecall is how the kinds take part in a durable process, without a config. Triggers get no packet of it.
func TestRecall(t *testing.T) {
	want := map[node.Recall]string{
		node.Pure:     "assert cache decode encode for if log nop page pipe recall reduce remember retry router sleep snippet split switch throw try validate wasm",
		node.Reads:    "auth trail_query",
		node.Effects:  "amqp_sink batch discord enqueue exec file_sink grpc_call http kafka_sink mail mcp_call mqtt_sink nats_kv nats_request nats_sink publish python redis redis_sink s3 s3_sink signal slack socket_sink sql sql_sink stdout telegram trail_sink websocket_client",
		node.Attached: "chat collect debounce fork grpc join login mcp proxy session static subscribe websocket window",
		node.Reruns:   "breaker dedupe emit limit llm merge trail_append",
		node.Holds:    "ask form wait",
	}
	got := make(map[node.Recall][]string)
	for _, def := range std.Defs("cel") {
		if def.Starts() || def.Subgraph != node.NoSubgraph {
			continue
		}
		recall := node.Effects
		if def.Recall != nil {
			cfg, _ := def.Config.Decode(schema.RawOf(value.Map())) // what is missing does not matter
			recall = def.Recall(cfg)
		}
		got[recall] = append(got[recall], def.Kind)
	}
	for _, recall := range slices.Sorted(maps.Keys(want)) {
		slices.Sort(got[recall])
		if kinds := strings.Join(got[recall], " "); kinds != want[recall] {
			t.Errorf("%s:\ngot  %s\nwant %s", recall, kinds, want[recall])
		}
	}
}
