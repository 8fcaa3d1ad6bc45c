package profiles

import "fmt"

// Dirty returns, encoded by key, the profiles that changed since the last call.
func (b *Book) Dirty() map[string][]byte {
	return takeDirty(b.dirty, func(sig Signature) []byte { return b.m[sig].Encode() })
}

// Load puts a stored profile into the book.
func (b *Book) Load(key string, v []byte) error {
	sig, p, err := decodeStored("profile", key, ParseKey, v, Decode)
	if err != nil {
		return err
	}
	b.own()
	b.put(sig, p)
	return nil
}

// DirtyLinks returns, encoded by key, the links that changed since the last call; nil
// for those that were forgotten.
func (b *Book) DirtyLinks() map[string][]byte {
	return takeDirty(b.dirtyLinks, func(p Pair) []byte {
		if l := b.links[p]; l != nil {
			return l.Encode()
		}
		return nil
	})
}

// LoadLink puts a stored link into the book.
func (b *Book) LoadLink(key string, v []byte) error {
	p, l, err := decodeStored("link", key, ParsePair, v, DecodeLink)
	if err != nil {
		return err
	}
	b.PutLink(p, l)
	delete(b.dirtyLinks, p)
	return nil
}

// takeDirty empties a set of what changed, and returns its values encoded by key.
func takeDirty[K interface {
	comparable
	Key() string
}](dirty map[K]struct{}, encode func(K) []byte) map[string][]byte {
	out := make(map[string][]byte, len(dirty))
	for k := range dirty {
		out[k.Key()] = encode(k)
	}
	clear(dirty)
	return out
}

// decodeStored reads what takeDirty has returned of one key.
func decodeStored[K, V any](what, key string, parse func(string) (K, error), v []byte, decode func([]byte) (V, error)) (k K, value V, err error) {
	if k, err = parse(key); err != nil {
		return k, value, err
	}
	if value, err = decode(v); err != nil {
		err = fmt.Errorf("%s %q: %w", what, key, err)
	}
	return k, value, err
}
