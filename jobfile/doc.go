// Package jobfile has what programs that read job files need besides dag.ParseYAML: it finds the
// files of inputs, and checks where outputs go before the job runs.
package jobfile
