package s3

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/value"
)

// TestRowsHint gives bodies that are not what the setting rows says.
func TestRowsHint(t *testing.T) {
	for _, c := range []struct {
		rows       bool
		body, want string
	}{
		{true, `{"n": 1}`, "want a list of rows, got map: if it is one row, leave out rows"},
		{true, `{"shop": 1, "items": [{"n": 1}]}`, `if its field "items" has the rows, make that the body, with a snippet of CEL before this node such as {"id": self.id, "body": self.body["items"]}`},
		{true, `7`, "want a list of rows, got integer"},
		{true, `[7]`, "want a map with a field for each column, got integer"},
		{false, `[{"n": 1}]`, "got list: if each element is a row, write rows: true"},
		{false, `{"n": 1}`, ""},
	} {
		e := encoding{name: "parquet", rows: c.rows, columns: []format.ParquetColumn{{Name: "n", Type: "int"}}}
		body, err := value.ParseJSON([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := e.add(e.begin("key"), body, true); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", c.body, got, c.want)
		}
	}
}
