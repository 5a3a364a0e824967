package mail

import (
	"crypto/tls"
	"os"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

// The words of the field encryption.
const (
	startTLS = "starttls"
	fromTLS  = "tls"
	noTLS    = "none"
)

func settingsFields() []*schema.Field {
	return []*schema.Field{
		schema.String("host").Required().Doc("The name or the address of the server that takes mail."),
		schema.Int("port").Range(1, 65535).Doc("Its port. The default is 587, and 465 with `encryption: tls`, and 25 with `encryption: none`."),
		schema.Enum("encryption", startTLS, fromTLS, noTLS).Default(startTLS).Doc("TLS after STARTTLS, which the server must offer; TLS from the beginning; or none, so anyone on the way can read and change everything."),
		schema.String("user").Doc("The user, with `password`."),
		schema.String("password").Secret().Doc("The password of the user."),
		schema.String("hello").Doc("The name by which this side introduces itself. The default is the name of the machine."),
		schema.Duration("timeout").Default("30s").Range(float64(time.Millisecond), float64(time.Hour)).Doc("How long it may take to connect and to hand over one mail."),
		schema.Int("connections").Default(4).Range(1, 1000).Doc("How many mails are handed over concurrently. Others wait."),
		field.NewTLS("How the server is trusted. The files are read when the node starts, so also at each reload."),
	}
}

// settings are how to connect. They are immutable.
type settings struct {
	host       string
	port       int
	encryption string
	user       string
	password   string
	hello      string
	timeout    time.Duration
	tls        field.TLS
}

func newSettings(c schema.Config) (s settings, err error) {
	s = settings{
		host: c.String("host"), port: int(c.Int("port")), encryption: c.String("encryption"), user: c.String("user"), password: c.String("password"),
		hello: c.String("hello"), timeout: c.Duration("timeout"),
	}
	if s.host == "" {
		return s, c.Errorf("host", diag.CodeBadValue, "is empty").WithHint("write one such as smtp.example.com")
	}
	if (s.user == "") != (s.password == "") {
		return s, c.Errorf("user", diag.CodeBadValue, "needs a password, and a password needs a user").WithHint("write both, or neither")
	}
	if s.encryption == noTLS && s.user != "" {
		return s, c.Errorf("encryption", diag.CodeBadValue, "without encryption, anyone on the way can read the password").WithHint("remove encryption, or user and password")
	}
	if s.encryption == noTLS && c.Has("tls") {
		return s, c.Errorf("tls", diag.CodeBadValue, "is not used with encryption: none").WithHint("remove tls, or encryption")
	}
	if s.port == 0 {
		s.port = map[string]int{startTLS: 587, fromTLS: 465, noTLS: 25}[s.encryption]
	}
	s.tls, err = field.TLSOf(c)
	return s, err
}

// options are those of a client of the library.
func (s *settings) options(trust *tls.Config) []mail.Option {
	options := []mail.Option{mail.WithPort(s.port), mail.WithTimeout(2 * s.timeout)} // send has the timeout for all of it
	hello := s.hello
	if hello == "" {
		hello, _ = os.Hostname() // the library has a default, too
	}
	if hello != "" {
		options = append(options, mail.WithHELO(hello))
	}
	switch s.encryption {
	case startTLS:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory), mail.WithTLSConfig(trust))
	case fromTLS: // send connects with it; so the library looks whether it is there, which WithSSL would not
		options = append(options, mail.WithTLSPolicy(mail.TLSOpportunistic))
	default:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if s.user != "" {
		options = append(options, mail.WithUsername(s.user), mail.WithPassword(s.password), mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover))
	}
	return options
}

// trust is what TLS needs, whose server has the name of the host unless tls says otherwise.
func (s *settings) trust() (*tls.Config, error) {
	config, err := s.tls.Config()
	if err == nil && config.ServerName == "" {
		config.ServerName = s.host
	}
	return config, err
}
