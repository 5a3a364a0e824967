package tabular

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
