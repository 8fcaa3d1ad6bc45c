package netlab

// NewByLines is New as where the kernel cannot delay packets.
func NewByLines(c Config) (*Lab, error) {
	return newLab(c, func(*Lab) (bool, error) { return false, nil })
}

// NewByNetem is New as where the kernel can.
func NewByNetem(c Config) (*Lab, error) {
	return newLab(c, func(*Lab) (bool, error) { return true, nil })
}

// Unified is unified.
var Unified = unified
