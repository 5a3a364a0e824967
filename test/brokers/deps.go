package brokers

import (
	_ "github.com/chromedp/chromedp"
	_ "github.com/nats-io/nats-server/v2/server"
	_ "github.com/nats-io/nats.go"
	_ "github.com/twmb/franz-go/pkg/kfake"
	_ "github.com/uniflow-labs/uniflow"
)
