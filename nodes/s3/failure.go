package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// answerOf returns what the service has answered; not ok if there is no answer.
func answerOf(err error) (answer minio.ErrorResponse, ok bool) {
	ok = errors.As(err, &answer)
	return answer, ok && answer.Code != ""
}

func codeOf(err error) string {
	answer, _ := answerOf(err)
	return answer.Code
}

// accused returns the field that a code blames: nothing that is asked for works until it is right.
// Empty is none.
func accused(code string) string {
	switch code {
	case minio.InvalidAccessKeyID, "XAdminUserNotFound": // the latter of versitygw
		return "access_key"
	case minio.SignatureDoesNotMatch:
		return "secret_key"
	case "InvalidToken", "ExpiredToken":
		return "session_token"
	case minio.NoSuchBucket, minio.InvalidBucketName:
		return "bucket"
	case minio.AuthorizationHeaderMalformed, minio.InvalidRegion, "PermanentRedirect":
		return "region"
	}
	return ""
}

// refused distinguishes reasons not to connect that do not go away from others.
func (s *store) refused(err error) error {
	var verify *tls.CertificateVerificationError
	var alert tls.AlertError
	var host x509.HostnameError
	answer, answered := answerOf(err)
	switch at := accused(answer.Code); {
	case answered && at != "":
		return &stream.RefusedError{Field: at, Err: fmt.Errorf("%s: %w", s.endpoint, s.text(answer))}
	case answered && answer.Code == minio.AccessDenied && s.access == "":
		return &stream.RefusedError{Err: fmt.Errorf("%s: bucket %q is not open to everyone: add access_key and secret_key", s.endpoint, s.bucket)}
	case answered && answer.Code == minio.AccessDenied:
		return &stream.RefusedError{Field: "access_key", Err: fmt.Errorf("%s: %w", s.endpoint, s.text(answer))}
	case errors.As(err, &host):
		return &stream.RefusedError{Field: "tls.server_name", Err: host}
	case errors.As(err, &verify):
		return &stream.RefusedError{Field: "tls.ca", Err: verify}
	case errors.As(err, &alert):
		return &stream.RefusedError{Field: "tls.cert", Err: alert}
	case errors.Is(err, http.ErrSchemeMismatch):
		return &stream.RefusedError{Field: "endpoint", Err: errors.New("the service does not speak TLS at this address")}
	}
	return fmt.Errorf("%s: %w", s.endpoint, err)
}

// text says what a service has answered. Its message may have what the request was, never a secret.
func (s *store) text(answer minio.ErrorResponse) error {
	return fmt.Errorf("bucket %q: %s (%s)", s.bucket, answer.Message, answer.Code)
}

// failure returns why a request about a key failed, as workflows see it. A connection that broke is
// [stream.ErrLost].
func (s *store) failure(err error, key string) error {
	answer, answered := answerOf(err)
	if !answered {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return fmt.Errorf("%s: %w: %w", s.endpoint, stream.ErrLost, err)
	}
	e := &node.Error{Err: fmt.Errorf("%s: %s", s.place(key), answer.Message), Status: answer.StatusCode, Code: answer.Code}
	switch {
	case accused(answer.Code) != "", answer.Code == "SlowDown", answer.StatusCode == http.StatusTooManyRequests, answer.StatusCode == http.StatusInternalServerError,
		answer.StatusCode == http.StatusBadGateway, answer.StatusCode == http.StatusServiceUnavailable, answer.StatusCode == http.StatusGatewayTimeout:
		e.Status, e.Outage = http.StatusServiceUnavailable, true
	case answer.StatusCode == http.StatusNotFound, answer.StatusCode == http.StatusConflict, answer.StatusCode == http.StatusPreconditionFailed, answer.StatusCode == http.StatusNotModified:
	default: // the config, or the author's expressions, have made what the service does not take
		e.Status, e.Permanent = http.StatusInternalServerError, true
	}
	return e
}

// isGone and isReplaced report what has become of an object that was listed.
func isGone(err error) bool {
	code := codeOf(err)
	return code == minio.NoSuchKey || code == "NoSuchVersion"
}

func isReplaced(err error) bool {
	code := codeOf(err)
	return code == minio.PreconditionFailed || code == minio.InvalidRange
}
