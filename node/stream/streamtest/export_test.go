package streamtest

import "time"

// SetPatience changes how long rows wait for what does not come.
func SetPatience(d time.Duration) { patience = d }
