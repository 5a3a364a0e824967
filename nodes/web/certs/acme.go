package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
)

// Obtained are the certificates of a listener by ACME, and gets those that are missing. They belong
// to the pool, so they survive reloads.
type Obtained struct {
	config *certmagic.Config
	cache  *certmagic.Cache
	log    *slog.Logger
	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     struct {
		sync.Mutex
		missing map[string]error // why there is no certificate yet, by domain
	}
}

// newObtained loads the certificates that the storage has, and begins to get the others.
// It logs for the first generation that needs it.
func newObtained(s acmeSettings, log *slog.Logger) (*Obtained, error) {
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	logger := newZap(log)
	c := &Obtained{log: log}
	c.mu.missing = make(map[string]error)
	c.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return c.config, nil },
		Logger:           logger,
	})
	c.config = certmagic.New(c.cache, certmagic.Config{
		Storage:           &certmagic.FileStorage{Path: s.storage},
		DefaultServerName: s.domains[0],
		OCSP:              certmagic.OCSPConfig{DisableStapling: true}, // authorities have given it up
		OnEvent:           c.onEvent,
		ShouldEmitFunc:    func(event string) bool { return event == "cert_failed" || event == "cert_obtained" },
		Logger:            logger,
	})
	c.config.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(c.config, certmagic.ACMEIssuer{
		CA:                      s.directory,
		Email:                   s.email,
		Agreed:                  true,
		TrustedRoots:            roots,
		ExternalAccount:         s.account(),
		DisableHTTPChallenge:    s.challenge != challengeHTTP,
		DisableTLSALPNChallenge: s.challenge != challengeTLS,
		ListenHost:              s.host,
		AltHTTPPort:             s.httpPort,
		AltTLSALPNPort:          s.port,
		HTTPProxy:               http.ProxyFromEnvironment,
		Logger:                  logger,
	})}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	for _, domain := range s.domains {
		cert, err := c.config.CacheManagedCertificate(ctx, domain)
		switch {
		case err == nil && !cert.NeedsRenewal(c.config):
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			cancel()
			c.work.Wait()
			c.cache.Stop()
			return nil, fmt.Errorf("tls.acme.storage: %w", err)
		case err != nil || cert.Expired():
			c.mu.Lock()
			c.mu.missing[domain] = nil
			c.mu.Unlock()
		}
		c.work.Go(func() { c.obtain(ctx, domain, err == nil) })
	}
	return c, nil
}

// obtain gets one certificate, and tries again for a month until it has it or ctx ends.
func (c *Obtained) obtain(ctx context.Context, domain string, renew bool) {
	var err error
	if renew {
		err = c.config.RenewCertAsync(ctx, domain, false)
	} else {
		err = c.config.ObtainCertAsync(ctx, domain)
	}
	if err == nil {
		_, err = c.config.CacheManagedCertificate(ctx, domain)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		c.failed(domain, err)
		return
	}
	c.mu.Lock()
	delete(c.mu.missing, domain)
	c.mu.Unlock()
}

// onEvent logs what has come of an order.
func (c *Obtained) onEvent(_ context.Context, event string, data map[string]any) error {
	domain, _ := data["identifier"].(string)
	if event == "cert_obtained" {
		c.log.Info("certificate obtained", "domain", domain)
	} else if err, ok := data["error"].(error); ok {
		c.failed(domain, err)
	}
	return nil
}

func (c *Obtained) failed(domain string, err error) {
	c.log.Error("certificate not obtained", "domain", domain, "error", node.Clip(err.Error(), maxLogged))
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.mu.missing[domain]; ok {
		c.mu.missing[domain] = err
	}
}

// Ready returns why a domain has no certificate, or nil.
func (c *Obtained) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name := range c.mu.missing {
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	if err := c.mu.missing[names[0]]; err != nil {
		return fmt.Errorf("no certificate for %s yet: %s", names[0], node.Clip(err.Error(), envelope.MaxQuote))
	}
	return fmt.Errorf("no certificate for %s yet", names[0])
}

// Certificate returns the one for a handshake, also for one of a challenge.
func (c *Obtained) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.config.GetCertificate(hello)
}

// Close stops getting certificates, and waits until that has ended. The pool calls it.
func (c *Obtained) Close() error {
	c.cancel()
	c.work.Wait()
	c.cache.Stop()
	return nil
}

// acmePath is where an authority asks for what proves that a name leads here.
const acmePath = "/.well-known/acme-challenge/"

// AnswerChallenge answers a request of an authority, if this program has asked it for a
// certificate.
func AnswerChallenge(w http.ResponseWriter, r *http.Request) bool {
	if r.TLS != nil || r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, acmePath) {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	challenge, ok := certmagic.GetACMEChallenge(host)
	return ok && certmagic.SolveHTTPChallenge(zap.NewNop(), w, r, challenge.Challenge)
}
