package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// clientFields are the fields of all kinds that connect, in front of their own.
func clientFields(own ...*schema.Field) schema.Object {
	return schema.Fields(append([]*schema.Field{
		schema.Strings("brokers").Required().Doc("The addresses of some brokers, such as `kafka-1:9092`. They name the others."),
		field.NewTLS("Connects over TLS; `tls: {}` trusts the authorities of the system. Files are read for each connection."),
		schema.Group("sasl", schema.Fields(
			schema.Enum("mechanism", "plain", "scram-sha-256", "scram-sha-512").Required().Doc("The SASL mechanism. `plain` sends the password itself, so use TLS."),
			schema.String("user").Required().Doc("The user."),
			schema.String("password").Secret().Doc("The password of the user."),
		)).Doc("Who connects."),
	}, own...)...)
}

// A connector makes the clients of one node.
type connector struct {
	config schema.Config
	tls    field.TLS
	log    *slog.Logger
	clock  node.Clock
}

func newConnector(init *node.Init) (connector, error) {
	c := connector{config: init.Config, log: init.Log, clock: init.Clock}
	for i, address := range c.config.Strings("brokers") {
		if !isAddress(address) { // it may have a password, so it is not shown
			return c, c.config.Errorf("brokers", diag.CodeBadValue, "number %d is not an address", i+1).
				WithHint("write a host and a port from 1 to 65535, such as 127.0.0.1:9092; users belong into sasl")
		}
	}
	var err error
	c.tls, err = field.TLSOf(c.config)
	return c, err
}

// isAddress reports whether a text is a host with a port, or without one, which is 9092.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), "9092"
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return false
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return host != "" && err == nil && n > 0 && !strings.ContainsAny(host, "@/,[] ")
}

// connect makes a client, and returns it when a broker has answered, with what watches it.
func (c *connector) connect(ctx context.Context, more ...kgo.Opt) (*kgo.Client, *watcher, error) {
	return c.connectWith(ctx, kgo.NewClient, more)
}

// connectWith is connect with what makes the client.
func (c *connector) connectWith(ctx context.Context, newClient func(...kgo.Opt) (*kgo.Client, error), more []kgo.Opt) (*kgo.Client, *watcher, error) {
	w := &watcher{connector: c}
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(c.config.Strings("brokers")...),
		kgo.ClientID("uniflow"),
		kgo.SoftwareNameAndVersion("uniflow", "1"),
		kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(500 * time.Millisecond), // how soon a broker that moved is found
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(100*time.Millisecond<<min(n, 5), 2*time.Second) }),
		kgo.WithHooks(w),
	}, more...)
	if c.config.Has("tls") {
		config, err := c.tls.Config()
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if c.config.Has("sasl") {
		group := c.config.Group("sasl")
		user, password := group.String("user"), group.String("password")
		switch group.String("mechanism") {
		case "plain":
			opts = append(opts, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
		case "scram-sha-256":
			opts = append(opts, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
		case "scram-sha-512":
			opts = append(opts, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
		}
	}
	client, err := newClient(opts...)
	if err != nil {
		return nil, nil, &stream.RefusedError{Err: err}
	}
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, nil, refused(err)
	}
	w.begin()
	return client, w, nil
}

// refused distinguishes reasons that do not go away from others.
func refused(err error) error {
	field := ""
	var verify *tls.CertificateVerificationError
	var alert tls.AlertError
	var host x509.HostnameError
	var header tls.RecordHeaderError
	var closed *kgo.ErrFirstReadEOF
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		field, err = "sasl.password", errors.New("the broker does not accept the user with this password")
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		field = "sasl.mechanism"
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		field = "topics"
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		field = "group"
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed), errors.Is(err, kerr.InvalidTransactionTimeout):
		field = "transaction"
	case errors.As(err, &host):
		field = "tls.server_name"
	case errors.As(err, &verify):
		field = "tls.ca"
	case errors.As(err, &alert):
		field = "tls.cert"
	case errors.As(err, &header):
		field, err = "tls", errors.New("the broker does not speak TLS at this address")
	case errors.As(err, &closed):
		return fmt.Errorf("the broker has closed the connection, as one does that needs tls or sasl: %w", err)
	default:
		return err
	}
	return &stream.RefusedError{Field: field, Err: err}
}

// missing asks which topics there are, and returns an error that names those that are
// not. It makes none.
func missing(ctx context.Context, client *kgo.Client, topics []string) error {
	req := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return refused(err)
	}
	var errs []error
	for _, t := range resp.Topics {
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case err == nil:
		case isMissing(err):
			errs = append(errs, fmt.Errorf("the topic %q does not exist", *t.Topic))
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			return &stream.RefusedError{Field: "topics", Err: fmt.Errorf("the user may not use the topic %q", *t.Topic)}
		default:
			errs = append(errs, fmt.Errorf("topic %q: %w", *t.Topic, err))
		}
	}
	return errors.Join(errs...)
}

func isMissing(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}
