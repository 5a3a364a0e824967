package value

// SourceOf returns the source of a lazy map. It is the same one for every copy
// of the map's Value, and for no map that was made from it by a change, so that
// whoever made the map can tell it from an equal one.
func SourceOf(v Value) (source Source, ok bool) {
	if v.meta.kind() != KindMap {
		return nil, false
	}
	if lazy := (*mapData)(v.ptr).lazy; lazy != nil {
		return lazy.source, true
	}
	return nil, false
}
