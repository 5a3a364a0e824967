module github.com/uniflow-labs/uniflow/test/brokers

go 1.26.0

require (
	github.com/chromedp/chromedp v0.23.0
	github.com/nats-io/nats-server/v2 v2.15.2
	github.com/nats-io/nats.go v1.55.0
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
	github.com/twmb/franz-go/pkg/kmsg v1.15.0
	github.com/uniflow-labs/uniflow v0.0.0
)

require (
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/chromedp/cdproto v0.159.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/uniflow-labs/uniflow/internal/ground v0.0.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace (
	github.com/uniflow-labs/uniflow v0.0.0 => ../..
	github.com/uniflow-labs/uniflow/batch v0.0.0 => ../../batch
	github.com/uniflow-labs/uniflow/internal/ground v0.0.0 => ../../internal/ground
	github.com/uniflow-labs/uniflow/internal/trailtest v0.0.0 => ../../internal/trailtest
	github.com/uniflow-labs/uniflow/lock v0.0.0 => ../../lock
	github.com/uniflow-labs/uniflow/trail v0.0.0 => ../../trail
)
