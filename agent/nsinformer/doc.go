// Package nsinformer limits informers to admitted namespaces, the only ones in which the
// agent may read Secrets and other objects.
//
// Admitted are the namespaces with the label, and those with an assignment whose label was
// removed. Each kind has one informer, which lists these namespaces one after the other and
// merges their watches. The namespaces are watched too, so that a newly admitted one is
// added at once.
package nsinformer
