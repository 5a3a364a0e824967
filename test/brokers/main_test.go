package brokers_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/test/brokers"
)

func TestMain(m *testing.M) {
	programMain()
	leak.Main(m, brokers.Clean)
}
