package trail

import (
	"os"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		childMain(dir)
		return
	}
	leak.Main(m)
}
