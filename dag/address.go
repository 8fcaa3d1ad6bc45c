package dag

import (
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// Address is an archive that a client fetches when it submits the job. In a job it
// stands in the place of a path, as URL or URL#sha256=HASH.
type Address struct {
	URL  string // http or https, without what stands behind #
	Hash string // SHA-256 that its bytes must have, in hexadecimal; "" when none was given
	Name string // of the archive: the last part of the URL's path
}

const addressHash = "sha256="

// ParseAddress reads the form that stands in a job; ok is false for other text, such
// as a path, and for an address that is malformed.
func ParseAddress(text string) (a Address, ok bool) {
	a, err := parseAddress(text)
	return a, err == nil && a.URL != ""
}

// parseAddress returns the zero Address for text that is none.
func parseAddress(text string) (Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return Address{}, nil
	}
	bad := func(why, hint string) (Address, error) {
		return Address{}, mistake(fmt.Sprintf("%q %s", clip(text), why), hint)
	}
	rest, fragment, marked := strings.Cut(rest, "#")
	rest, _, _ = strings.Cut(rest, "?")
	host, file, _ := strings.Cut(rest, "/")
	name := file[strings.LastIndexByte(file, '/')+1:]
	if host == "" || strings.ContainsAny(text, " \t\r\n\"\\") {
		return bad("is no address", "write https://HOST/PATH.zip")
	}
	if err := checkHost(host); err != nil {
		message, hint := splitHint(err)
		return bad("is no address: "+message, hint)
	}
	if ext := strings.ToLower(path.Ext(name)); ext != ".zip" && ext != ".whl" {
		return bad("does not end in .zip or .whl", "an address names an archive: https://HOST/PATH.zip")
	}
	hash, ok := strings.CutPrefix(fragment, addressHash)
	if marked {
		if b, err := hex.DecodeString(hash); !ok || err != nil || len(hash) != hashDigits || hex.EncodeToString(b) != hash {
			return bad("has no hash behind the #", "write #"+addressHash+"HASH with 64 digits, or nothing")
		}
	}
	url, _, _ := strings.Cut(text, "#")
	return Address{URL: url, Hash: hash, Name: name}, nil
}

// checkAddress refuses text that begins like an address and is none; where no
// address may stand, any.
func checkAddress(text string, allowed bool) error {
	a, err := parseAddress(text)
	if err == nil && a.URL != "" && !allowed {
		err = mistake(fmt.Sprintf("%q is an address", clip(text)), "only working_dir and py_modules are fetched; name a path here")
	}
	return err
}
