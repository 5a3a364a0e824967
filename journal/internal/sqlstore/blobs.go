package sqlstore

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/journal"
)

// largePayload is the size in bytes above which a payload is kept in the table blobs: once
// for a run, however many records have it.
const largePayload = 16 << 10

// maxPayload bounds what a damaged blob can make of itself. The limit of payloads is lower.
const maxPayload = 64 << 20

// A Blob is a large payload.
type Blob struct {
	Run  journal.ID
	Hash []byte
	Body []byte // compressed
	Size int64  // of the payload
}

// A Packer compresses large payloads. Pack and unpack do not run at the same time as Close;
// unpack may run in many goroutines.
type Packer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// NewPacker makes a Packer. Close it.
func NewPacker() (*Packer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxPayload))
	if err != nil {
		return nil, errors.Join(err, encoder.Close())
	}
	return &Packer{encoder, decoder}, nil
}

// Close releases memory.
func (p *Packer) Close() error {
	p.decoder.Close()
	return p.encoder.Close()
}

// pack returns what a column has of a payload: the payload, or the hash of its blob.
func (p *Packer) pack(run journal.ID, payload []byte) ([]byte, *Blob) {
	if len(payload) <= largePayload {
		return payload, nil
	}
	sum := sha256.Sum256(payload)
	return sum[:], &Blob{Run: run, Hash: sum[:], Body: p.encoder.EncodeAll(payload, nil), Size: int64(len(payload))}
}

func (p *Packer) unpack(column []byte, packed bool) ([]byte, error) {
	if !packed {
		return column, nil
	}
	if column == nil {
		return nil, errors.New("a payload is missing: the journal is damaged")
	}
	payload, err := p.decoder.DecodeAll(column, nil)
	if err != nil {
		return nil, fmt.Errorf("a payload cannot be read: %w", err)
	}
	return payload, nil
}
