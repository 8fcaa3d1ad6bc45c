package dag

import "go.yaml.in/yaml/v4"

// Where returns the line and column, from 1 on, of the node of a job file under
// keys, one inside the other; of a list the key is the text of an entry. A node that
// is not there, or not as it is written, has the place of the one around it; 0, 0
// when the text is no job file.
func Where(text []byte, keys ...string) (line, column int) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) != 1 {
		return 0, 0
	}
	n := doc.Content[0]
	for _, key := range keys {
		next := under(n, key)
		if next == nil {
			break
		}
		n = next
	}
	return n.Line, n.Column
}

// under returns what stands in a mapping or list under a key; nil without one.
func under(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for i, c := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode && c.Kind == yaml.ScalarNode && c.Value == key:
			return c
		case n.Kind == yaml.MappingNode && i%2 == 0 && c.Value == key && i+1 < len(n.Content):
			return n.Content[i+1]
		}
	}
	return nil
}
