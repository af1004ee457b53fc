/* The planted faults of tools/mutants/plant.py: which one is awake, and which sites have been reached. */
#ifndef WIREFMT_MUTANT_H
#define WIREFMT_MUTANT_H
#include <stdlib.h>

int wirefmt_mutant;                             /* 0: none */
unsigned char wirefmt_reached[MUTANTS];

__attribute__((constructor)) static void wirefmt_choose_mutant(void)
{
    const char *text = getenv("WIREFMT_MUTANT");
    wirefmt_mutant = text ? atoi(text) : 0;
}

static inline int MUTANT(int number)
{
    wirefmt_reached[number] = 1;
    return wirefmt_mutant == number;
}
#endif
