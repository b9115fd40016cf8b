// Command image makes an image that Docker built reproducible: it reads an archive of
// `docker save`, replaces the times and the platform that the classic builder took from its
// machine, and writes an archive for `docker load`.
//
//	image --epoch SECONDS --platform OS/ARCH IN.tar OUT.tar NAME:TAG
package main
